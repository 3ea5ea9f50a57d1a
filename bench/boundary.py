"""The boundary of the official Python SDK, measured where it runs.

Reads lines of JSON from standard input: first {"tool", "audience", "principal",
"arguments"}; then {"state"} to get ready for, or {"what", "count"} to run. Answers each
with a line: "ready", or the nanoseconds that it took.

The two methods are called as the SDK's own middleware calls them, without the server
around it, which has no part in the figures of the others either.
"""

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity


@dataclass(frozen=True)
class Context:
    """What the boundary looks at of a request's context."""

    method: str
    params: dict[str, Any]


config = json.loads(sys.stdin.readline())
security = RequestStateSecurity(
    keys=["a secret of at least thirty-two bytes"],
    audience=config["audience"],
    bind_principal=lambda ctx: config["principal"],
)
boundary = RequestStateBoundary(security, default_audience=None)
arguments = json.loads(config["arguments"])


def context(**more: Any) -> Context:
    return Context("tools/call", {"name": config["tool"], "arguments": arguments, **more})


state, first, retry = "", context(), context()
print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "state" in request:
        state = request["state"]
        retry = context(requestState=boundary._seal(first, state))
        if boundary._unseal(retry)[0] != state:
            sys.exit("what was unsealed is not what was sealed")
        print("ready", flush=True)
        continue
    count = range(request["count"])
    began = time.perf_counter_ns()
    if request["what"] == "seal":
        for _ in count:
            boundary._seal(first, state)
    else:
        for _ in count:
            boundary._unseal(retry)
    print(time.perf_counter_ns() - began, flush=True)
