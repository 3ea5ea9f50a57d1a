"""The Python half of the fleet: an MCP server of the official SDK, or of FastMCP, over Streamable HTTP.

Reads its configuration from standard input, as JSON, binds a free port on loopback and
writes its address to standard output. Ends when standard input does.
"""

import asyncio
import base64
import json
import logging
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

MARK = "\ud800\N{MUSICAL SYMBOL G CLEF}"  # begins every state; the first half is a lone surrogate
ROUNDS = 3


def answer(name: str, state: str | None) -> tuple[str, bool]:
    """Returns the next state, or the text of the complete result and True."""
    if state is None:
        return MARK + name, False
    if not state.startswith(MARK):
        return "the state came back damaged: " + ascii(state), True
    names = state.removeprefix(MARK).split() + [name]
    if len(names) > ROUNDS:
        return " ".join(names), True
    return MARK + " ".join(names), False


async def respond(name: str, ctx: Any) -> Any:
    await ctx.report_progress(1)  # makes a stream of the answer, if the client wants to know and gets no JSON
    text, complete = answer(name, ctx.request_state)
    if complete:
        return text
    form = ElicitRequestFormParams(message="Go on?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"go_on": ElicitRequest(params=form)}, request_state=text)


class Users:
    """Verifies a bearer token by looking it up."""

    def __init__(self, users: dict[str, dict[str, str]]):
        self.users = users

    async def verify_token(self, token: str) -> AccessToken | None:
        user = self.users.get(token)
        if user is None:
            return None
        claims = {"iss": user["iss"]} if "iss" in user else {}
        return AccessToken(token=token, client_id=user["client_id"], scopes=[], subject=user.get("sub"), claims=claims)


def security(config: dict[str, Any]) -> RequestStateSecurity:
    """Takes one secret, or the list that keytool export writes."""
    keys = [base64.b64decode(key) for key in config["keys"]] if "keys" in config else [config["secret"]]
    ttl = {"ttl": config["ttl"]} if "ttl" in config else {}
    return RequestStateSecurity(keys=keys, audience=config["audience"], **ttl)


def app(config: dict[str, Any]) -> Any:
    if config.get("framework") == "fastmcp":
        return fastmcp_app(config)
    return mcp_app(config)


def register(server: Any, name: str, Context: type, **plain: Any) -> None:
    """Adds what every server of the fleet has; plain keeps a tool's answer as it is."""

    @server.tool(**plain)
    async def book(ctx: Context, value: Any = None, note: Any = None) -> Any:
        return await respond(name, ctx)

    @server.tool(**plain)
    async def cancel(ctx: Context, value: Any = None, note: Any = None) -> Any:
        return await respond(name, ctx)

    @server.prompt()
    async def greet(ctx: Context, value: str = "", note: str = "") -> Any:
        return await respond(name, ctx)

    @server.resource("notes://{id}")
    async def notes(ctx: Context, id: str) -> Any:
        return await respond(name, ctx)


def mcp_app(config: dict[str, Any]) -> Any:
    name = config["name"]
    server = MCPServer(
        name,
        request_state_security=security(config),
        token_verifier=Users(config["users"]),
        auth=AuthSettings(issuer_url="http://127.0.0.1/issuer", resource_server_url=None),
    )

    register(server, name, Context, structured_output=False)
    return server.streamable_http_app(json_response=not config.get("stream", False), stateless_http=True)


def fastmcp_app(config: dict[str, Any]) -> Any:
    # Only who wants it waits for its import.
    from fastmcp import Context, FastMCP
    from fastmcp.server.auth import TokenVerifier

    class Verifier(TokenVerifier):
        async def verify_token(self, token: str) -> AccessToken | None:
            return await Users(config["users"]).verify_token(token)

    name = config["name"]
    server = FastMCP(name, request_state_security=security(config), auth=Verifier())

    register(server, name, Context, output_schema=None)
    return server.http_app(json_response=not config.get("stream", False), stateless_http=True)


async def main() -> None:
    # First, or else the SDK lays its log out for a terminal, which breaks lines.
    logging.basicConfig(format="%(message)s")
    config = json.loads(sys.stdin.readline())
    listener = socket.create_server(("127.0.0.1", 0))
    print("http://127.0.0.1:%d/mcp" % listener.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(app(config), log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


asyncio.run(main())
