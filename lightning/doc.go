// Package lightning talks to LND nodes. It is the only package that imports lnd: no type of lnd or gRPC leaves it.
//
// A *Client is one node. It implements paidaction.SendingNode (a node that takes and sends payments) and
// paidaction.NodeEvents (its streams). Nodes are several clients by name. Every call but a stream passes through call
// (client.go); errors.go says what each error of LND means.
package lightning
