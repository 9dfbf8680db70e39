"""What the adapters of providers share beside the conversation.

Clients that belong to a loop, failures in the runtime's words, keys and where they may go, options,
replies taken apart, what a model wants to see again, and schemas as providers enforce them.
"""
