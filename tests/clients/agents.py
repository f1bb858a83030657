"""The Model Context Protocol as its own clients speak it: the Python client, and the inspector, each over HTTP and over the
command's stdin and stdout."""

import asyncio
import json
import os
import subprocess
import tempfile

import httpx2
import mcp
import mcp.client.streamable_http
from service import AUTHORIZATION, KEY

# Longest run of the inspector, which starts slowly.
SOON = 60
TOOLS = [
    "search", "list_theses", "get_thesis", "get_profile", "get_token", "get_token_activity", "verify_thesis", "list_events",
    "get_usage",
]  # fmt: skip


def settings(service):
    return {"SVC_KEY": KEY, "SVC_API_URL": service.http}


async def uses_tools(client, revision):
    """Lists and calls what a connected client finds. The client checks each result against the tool's schema."""
    assert client.protocol_version == revision, client.protocol_version
    assert "test key" in client.instructions, client.instructions
    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    listed = await client.call_tool("list_theses", {"token": "RUN", "limit": 1})
    assert not listed.is_error, listed
    thesis = listed.structured_content["theses"][0]
    read = await client.call_tool("get_thesis", {"id": thesis["id"]})
    assert read.structured_content["handle"] == thesis["handle"], read
    claim = {"handle": thesis["handle"], "token": thesis["token_id"], "created_after": thesis["created_at"]}
    verdict = await client.call_tool("verify_thesis", claim)
    assert verdict.structured_content["verified"], verdict
    for tool, arguments in (
        ("search", {"q": "run"}),
        ("get_profile", {"profile": thesis["handle"]}),
        ("get_token", {"token": "RUN"}),
        ("get_token_activity", {"token": "RUN"}),
        ("list_events", {"types": "thesis.created"}),
        ("get_usage", {}),
    ):
        result = await client.call_tool(tool, arguments)
        assert not result.is_error and result.structured_content, result
    refused = await client.call_tool("get_thesis", {"id": "th_unknown"})
    assert refused.is_error and "THESIS_NOT_FOUND" in refused.content[0].text, refused
    assert len((await client.list_prompts()).prompts) == 3
    prompt = await client.get_prompt("what_is_said_about_a_token", {"token": "$RUN"})
    assert "$RUN" in prompt.messages[0].content.text, prompt


async def mcp_python(service):
    """The Python client, by the newest revision and by the handshake of the older ones."""
    for mode, revision in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with httpx2.AsyncClient(headers=AUTHORIZATION) as http:
            transport = mcp.client.streamable_http.streamable_http_client(f"{service.http}/mcp", http_client=http)
            async with mcp.Client(transport, mode=mode) as client:
                await uses_tools(client, revision)
        server = mcp.StdioServerParameters(command=service.program, args=["mcp"], env=settings(service))
        async with mcp.Client(server, mode=mode) as client:
            await uses_tools(client, revision)


async def inspect(arguments, home):
    """What the inspector prints about a server."""
    process = await asyncio.create_subprocess_exec(
        os.environ["INSPECTOR_NODE"], os.environ["INSPECTOR"], "--cli", *arguments, "--quiet",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], "HOME": home},
    )  # fmt: skip
    told, said = await asyncio.wait_for(process.communicate(), SOON)
    assert process.returncode == 0, (process.returncode, told, said)
    return json.loads(told)


async def mcp_inspector(service):
    """The inspector finds the tools' schemas portable, and calls one."""
    over_http = [f"{service.http}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {KEY}"]
    variables = [part for name, value in settings(service).items() for part in ("-e", f"{name}={value}")]
    over_stdio = [service.program, "mcp", *variables]
    with tempfile.TemporaryDirectory() as home:
        for server in (over_http, over_stdio):
            listed = await inspect([*server, "--method", "tools/list", "--strict"], home)
            assert [tool["name"] for tool in listed["tools"]] == TOOLS, listed
        modern = [*over_http, "--protocol-era", "modern"]
        call = ["--method", "tools/call", "--tool-name", "list_theses", "--tool-arg", "token=RUN", "limit=1"]
        called = await inspect([*modern, *call], home)
        assert len(called["structuredContent"]["theses"]) == 1, called
