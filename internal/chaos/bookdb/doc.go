// Package bookdb holds the queries with which chaos checks its books, so that it shares none with the code under test.
package bookdb
