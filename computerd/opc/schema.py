"""`opc schema`: the API's JSON Schema, from the copy that comes with the client."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping

from computerd.contract import published
from computerd.opc.failure import Failure


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints it, or one thing of it.

    Raises:
        Failure: There is no such thing.
    """
    if options.object is None:
        print(published.text(), end="")
        return 0
    try:
        found = published.named(options.object)
    except KeyError as error:
        raise Failure("not_found", str(error.args[0])) from None
    print(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
