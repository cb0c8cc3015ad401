// Package simdb holds the simulation's own queries, so that the model shares none with the code under test.
package simdb
