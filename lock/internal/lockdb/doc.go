// Package lockdb is the queries of the lock in PostgreSQL, compiled by sqlc against the migrations. make generate writes all of it
// but this file and lock.sql.
package lockdb
