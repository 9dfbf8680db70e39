"""The state machine of one invocation: messages in, messages out. Pure."""
