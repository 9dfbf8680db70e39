"""The process that the engine runs in: a line of JSON asks for a reply, a line of JSON is one.

It is run as a file, and imports nothing of this package. Its process is what can be killed: the
engine cannot be stopped while it reads, and takes a Python that ends in the meantime down with it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, cast

import mistralrs

QUANTIZATION = "Q8_0"
"""In which the engine is five times as fast on a CPU as in the Q4_1 of the file."""


def main() -> None:
    """Answer until nobody asks any more."""
    weights, orders = Path(sys.argv[1]), SimpleQueue[dict[str, Any]]()
    # Whatever is printed here must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    Thread(target=_listen, args=(orders,), daemon=True).start()
    runner: mistralrs.Runner | None = None
    while True:
        order = orders.get()
        try:
            runner = runner or _load(weights)
            answer = _generate(runner, order)
        # A panic of the engine is no Exception. After the first line comes its stack.
        except BaseException as error:  # noqa: BLE001
            answer = {"error": str(error).partition("\n")[0]}
        print(json.dumps(answer), file=answers, flush=True)


def _listen(orders: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # whoever has asked is gone, whatever is being written


def _load(weights: Path) -> mistralrs.Runner:
    # Its stub takes the class for a member of an enum.
    gguf = cast("Any", mistralrs.Which.GGUF)
    return mistralrs.Runner(
        # A folder and a file: no hub is asked. Tokenizer and chat template are in the file.
        gguf(str(weights.parent), weights.name),
        # Several at once it mixes up.
        max_seqs=1,
        token_source="none",
        no_paged_attn=True,
        in_situ_quant=QUANTIZATION,
    )


def _generate(runner: mistralrs.Runner, order: dict[str, Any]) -> dict[str, Any]:
    asked = mistralrs.ChatCompletionRequest(
        **order, model="default", temperature=0.0, grammar_type="json_schema"
    )
    reply = runner.send_chat_completion_request(asked)
    assert not isinstance(reply, Iterator)
    (choice,) = reply.choices
    return {
        "id": reply.id,
        "text": choice.message.content or "",
        "stop": choice.finish_reason,
        "input_tokens": reply.usage.prompt_tokens,
        "output_tokens": reply.usage.completion_tokens,
    }


if __name__ == "__main__":
    main()
