// Package lightning speaks to LND nodes. It is the only package that imports lnd: no type of lnd or gRPC leaves it.
//
// A *Client is one node. It implements what is asked of a node that takes and sends payments (paidaction.SendingNode) and its
// streams (paidaction.NodeEvents). Nodes are several clients by name.
package lightning
