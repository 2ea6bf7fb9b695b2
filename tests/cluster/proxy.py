"""A TCP proxy on one thread: python3 proxy.py LISTENS BEHIND, both ports of the loopback address.

It keeps nothing: what one side sends is read when the other has taken what came before. Source: select(2).
"""
import select
import socket
import sys


def close(pairs: dict, one: socket.socket):
    for end in (one, pairs.pop(one)):
        pairs.pop(end, None)
        end.close()


def main():
    behind = ("127.0.0.1", int(sys.argv[2]))
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=False)
    pairs = {}
    while True:
        ready, _, _ = select.select([listener, *pairs], [], [])
        for one in ready:
            if one is listener:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(behind, timeout=1)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                pairs[client], pairs[server] = server, client
            elif one in pairs:
                try:
                    data = one.recv(262144)
                    if not data:
                        raise OSError
                    pairs[one].sendall(data)
                except OSError:
                    close(pairs, one)


main()
