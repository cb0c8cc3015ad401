// Package lightning speaks to LND nodes. It is the only package that imports lnd: no type of lnd or gRPC leaves it.
//
// A *Client is one node. It implements what the engine asks of a node (paidaction.Node and paidaction.NodeEvents) and what
// sending needs (Pay, TrackPayment). Nodes are several clients by name.
package lightning
