"""Finishes calls with the client of the official Python SDK.

Reads jobs from standard input and writes outcomes to standard output, a line of JSON each.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client, MCPError
from mcp_types import ElicitResult


async def finish(job: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = {"text": "", "asked": 0, "error": ""}

    async def answer(context: Any, params: Any) -> ElicitResult:
        outcome["asked"] += 1
        return ElicitResult(action="accept", content={"answer": f"answer {outcome['asked']}"})

    mode = job["version"] if job["version"] >= "2026" else "legacy"
    async with Client(job["url"], mode=mode, elicitation_callback=answer) as client:
        outcome["version"] = client.protocol_version
        plan = {"questions": job["questions"], "waits": job["waits"]}
        try:
            if job["method"] == "tools/call":
                content = (await client.call_tool(job["target"], plan)).content
            elif job["method"] == "prompts/get":
                messages = (await client.get_prompt(job["target"], {k: str(v) for k, v in plan.items()})).messages
                content = [message.content for message in messages]
            else:
                content = (await client.read_resource(job["target"])).contents
            outcome["text"] = "".join(part.text for part in content)
        except MCPError as e:
            outcome["error"] = e.error.model_dump_json(exclude_none=True)
    return outcome


for line in sys.stdin:
    print(json.dumps(asyncio.run(finish(json.loads(line)))), flush=True)
