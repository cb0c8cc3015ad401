// Package tools pins the versions of the programs that generate and check Holdfast's code. It is a module of its own so
// that what they depend on stays out of the service's.
package tools
