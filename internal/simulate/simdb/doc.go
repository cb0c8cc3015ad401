// Package simdb holds what the simulation asks the database: queries of its own, so that the model shares none with the code under test.
package simdb
