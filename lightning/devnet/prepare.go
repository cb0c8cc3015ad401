package devnet

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

// prepare chooses ports and a password, and writes every program's settings.
func (n *Network) prepare() error {
	n.removeRecord() // left by a network that was killed
	ports, err := n.ports(3 + 2*len(names))
	if err != nil {
		return err
	}
	dir := func(name string) (string, error) {
		path := filepath.Join(n.options.Dir, name)
		return path, os.MkdirAll(path, 0o700)
	}
	btcd, err := dir(chainDir)
	if err != nil {
		return err
	}
	c := &chain{rpc: loopback(ports[0]), user: "holdfast", password: rand.Text()}
	if err := c.configure(btcd, n.options.Bin, n.claim); err != nil {
		return err
	}
	n.chain = c
	n.watch(c.server)
	rest, lnurlPort, ports := ports[1], ports[2], ports[3:]
	for i, name := range names {
		path, err := dir(name)
		if err != nil {
			return err
		}
		node := &Node{name: name, dir: path, rpc: loopback(ports[2*i]), peer: loopback(ports[2*i+1])}
		if name == Receiver {
			node.rest = loopback(rest)
		}
		if err := node.configure(n.options, n.chain, n.claim); err != nil {
			return err
		}
		n.nodes[name] = node
		n.watch(node.server)
	}
	n.lnurl = newLNURL(n.nodes[Receiver], loopback(lnurlPort))
	return nil
}

const portsFile = "ports.json"

// ports are those of the network's last start if they are free, so that an address that somebody has noted stays valid.
func (n *Network) ports(count int) ([]int, error) {
	path := filepath.Join(n.options.Dir, portsFile)
	var ports []int
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &ports) // an unreadable file is replaced
	}
	taken := func(port int) bool { return !freeport.IsFree(port) }
	if len(ports) == count && !slices.ContainsFunc(ports, taken) {
		return ports, nil
	}
	ports, err := freeport.Pick(count)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(ports)
	if err != nil {
		return nil, err
	}
	return ports, os.WriteFile(path, text, 0o600)
}
