package devnet

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

// prepare chooses ports and a password and writes every program's settings.
func (n *Network) prepare(made bool) error {
	n.removeRecord() // of a network that was killed
	ports, err := freeport.Pick(1 + 2*len(names))
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
	for i, name := range names {
		path, err := dir(name)
		if err != nil {
			return err
		}
		node := &Node{name: name, dir: path, rpc: loopback(ports[1+2*i]), peer: loopback(ports[2+2*i])}
		if err := node.configure(n.options.Bin, n.chain, n.claim); err != nil {
			return err
		}
		n.nodes[name] = node
		n.watch(node.server)
	}
	return nil
}
