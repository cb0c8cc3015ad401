package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Node says where a Lightning node is and how to get access.
type Node struct {
	Name     string
	Address  string // host:port of its gRPC
	TLS      string // path of its certificate
	Macaroon string // path of a macaroon
	Sends    bool   // it sends payments
	Slots    int    // payments in flight at most; 0: as in the settings of sending
}

// Nodes are in the order in which they are asked to issue invoices.
type Nodes []Node

// UnmarshalText reads NAME=HOST:PORT;tls=PATH;macaroon=PATH, several separated by commas or white space. Each may be
// followed by ;send=no for a node that only issues invoices, or by ;slots=N for a limit of its own.
func (n *Nodes) UnmarshalText(text []byte) error {
	var nodes Nodes
	for _, part := range strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if pasted(part) { // whatever else is wrong with it: it would be quoted, and lie in logs and in what config print shows
			name, _, _ := strings.Cut(part, "=")
			return fmt.Errorf("node %q: its macaroon must be the path of a file, and this is a macaroon itself, which opens the node to whoever reads the settings: write it to a file", name)
		}
		node, err := parseNode(part)
		if err != nil {
			return fmt.Errorf("node %q: %w; write NAME=HOST:PORT;tls=PATH;macaroon=PATH, and after it ;send=no or ;slots=N if need be", part, err)
		}
		for _, other := range nodes {
			if other.Name == node.Name {
				return fmt.Errorf("two nodes are named %q: rows would point to either; give each a name of its own", node.Name)
			}
		}
		nodes = append(nodes, node)
	}
	*n = nodes
	return nil
}

// String is what UnmarshalText reads.
func (n Nodes) String() string {
	texts := make([]string, len(n))
	for i, node := range n {
		texts[i] = fmt.Sprintf("%s=%s;tls=%s;macaroon=%s", node.Name, node.Address, node.TLS, node.Macaroon)
		if !node.Sends {
			texts[i] += ";send=no"
		}
		if node.Slots > 0 {
			texts[i] += fmt.Sprintf(";slots=%d", node.Slots)
		}
	}
	return strings.Join(texts, ",")
}

// macaroonBegins are the first bytes of a macaroon of LND's, in hex and in base64: its version, and "lnd" as its location.
var macaroonBegins = []string{"0201036c6e64", "agedbg5k"}

// pasted reports whether a macaroon stands where its path should.
func pasted(text string) bool {
	for _, field := range strings.Split(text, ";") {
		value, ok := strings.CutPrefix(field, "macaroon=")
		if ok && slices.ContainsFunc(macaroonBegins, func(begin string) bool { return strings.HasPrefix(strings.ToLower(value), begin) }) {
			return true
		}
	}
	return false
}

func parseNode(text string) (Node, error) {
	fields := strings.Split(text, ";")
	node := Node{Sends: true}
	var ok bool
	if node.Name, node.Address, ok = strings.Cut(fields[0], "="); !ok {
		return node, errors.New("it is not both a name and an address, joined by =")
	}
	if node.Name == "" {
		return node, errors.New("it has no name")
	}
	if _, _, err := net.SplitHostPort(node.Address); err != nil {
		return node, fmt.Errorf("its address %q is no HOST:PORT", node.Address)
	}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "tls":
			node.TLS = value
		case "macaroon":
			node.Macaroon = value
		case "send":
			if value != "yes" && value != "no" {
				return node, fmt.Errorf("send is %q, not yes or no", value)
			}
			node.Sends = value == "yes"
		case "slots":
			var err error
			if node.Slots, err = strconv.Atoi(value); err != nil || node.Slots < 1 || node.Slots > maxSlots {
				return node, fmt.Errorf("its slots are %q, not a number of payments from 1 to %d", value, maxSlots)
			}
		default:
			return node, fmt.Errorf("it has an unknown part %q", key)
		}
	}
	if node.TLS == "" || node.Macaroon == "" {
		return node, errors.New("its certificate (tls) or its macaroon is missing")
	}
	if !node.Sends && node.Slots > 0 {
		return node, errors.New("it has slots for payments and does not send")
	}
	return node, nil
}
