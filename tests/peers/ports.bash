# Ports of the loopback interface, for scripts that start servers.

# free_port: prints an unused port.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# listening PORT: waits until a server listens there.
listening() {
    local attempt
    for attempt in {1..200}; do
        { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null && { exec 3>&-; return; }
        sleep 0.1
    done
    return 1
}
