package devnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const recordFile = "network.json"

// Record is what another process must know of a running network. It is a JSON file in the network's directory, from the
// end of the start to the beginning of the stop.
type Record struct {
	Nodes            map[string]NodeRecord `json:"nodes"`             // by name
	LightningAddress string                `json:"lightning_address"` // the receiver's
}

// NodeRecord is how to reach a node.
type NodeRecord struct {
	Address  string `json:"address"`        // gRPC, host and port
	REST     string `json:"rest,omitempty"` // host and port; only the receiver has it
	TLSCert  string `json:"tls"`            // path
	Macaroon string `json:"macaroon"`
}

// ErrNotRunning means that no network runs in a directory.
var ErrNotRunning = errors.New("no Lightning network runs here")

// ReadRecord reads the record of the network in dir. It fails with [ErrNotRunning] if there is none.
func ReadRecord(dir string) (Record, error) {
	var record Record
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record, fmt.Errorf("directory %s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return record, err
	}
	return record, json.Unmarshal(text, &record)
}

func (n *Network) writeRecord() error {
	record := Record{Nodes: map[string]NodeRecord{}, LightningAddress: n.LightningAddress()}
	for name, node := range n.nodes {
		record.Nodes[name] = NodeRecord{Address: node.rpc, REST: node.rest, TLSCert: node.TLSCert(), Macaroon: node.Macaroon()}
	}
	text, err := json.MarshalIndent(record, "", "\t")
	if err != nil {
		return err
	}
	// Rename it into place, so that a reader never sees half of it.
	path := filepath.Join(n.options.Dir, recordFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (n *Network) removeRecord() { _ = os.Remove(filepath.Join(n.options.Dir, recordFile)) }
