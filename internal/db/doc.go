// Package db is the queries of internal/db/*.sql, compiled by sqlc against the migrations. make generate writes all of it but
// this file and transaction.go.
package db
