// Package freeport finds TCP ports on the loopback interface for servers that must be told their port.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that systems use for outgoing connections (Linux: 32768 and up). Otherwise a
// server that is restarted on its port would sometimes find it used by a client's connection.
const lowest, highest = 15000, 32000

var (
	mutex sync.Mutex
	given = map[int]bool{} // by this process: a port is free until its server has bound it
)

// Pick returns n different ports on 127.0.0.1 that nothing listens on now and that it has not returned before in this
// process. Another process may still take one before its server starts, so a server that fails to start is worth a
// second try with a new port.
func Pick(n int) ([]int, error) {
	mutex.Lock()
	defer mutex.Unlock()
	var ports []int
	for range 100 * n {
		port := lowest + rand.IntN(highest-lowest)
		if given[port] || !IsFree(port) {
			continue
		}
		given[port] = true
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports: hardly any port is free on 127.0.0.1", n)
}

// IsFree reports whether nothing listens on this port of 127.0.0.1 now.
func IsFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
