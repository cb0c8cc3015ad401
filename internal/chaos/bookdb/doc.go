// Package bookdb holds what the books of chaos ask the database: queries of its own, so that they share none with the code under test.
package bookdb
