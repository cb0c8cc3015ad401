// Package benchdb holds what the benchmark asks the database: queries of its own, so that they share none with what is measured.
package benchdb
