"""An old press: an OPC UA server without security, which anybody may read and write. Needs `pip install asyncua`."""

import asyncio
import logging
import sys

from asyncua import Server, ua

NAMESPACE = "urn:works:press"


async def main(port: int) -> None:
    logging.disable(logging.CRITICAL)
    server = Server()
    await server.init()
    server.set_endpoint(f"opc.tcp://localhost:{port}")
    server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
    index = await server.register_namespace(NAMESPACE)
    press = await server.nodes.objects.add_object(ua.NodeId("Press", index), ua.QualifiedName("Press", index))
    force = await press.add_variable(ua.NodeId("Press.Force", index), ua.QualifiedName("Force", index), 120.0)
    await force.set_writable()
    strokes = await press.add_variable(ua.NodeId("Press.Strokes", index), ua.QualifiedName("Strokes", index), 0)
    async with server:
        print(f"press at opc.tcp://localhost:{port}", flush=True)
        count = 0
        while True:
            await asyncio.sleep(1)
            count += 1
            await strokes.write_value(count)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
