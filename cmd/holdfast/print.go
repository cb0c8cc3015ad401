package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes v as JSON if that is wanted, else as the table that people lays out.
func (e *environment) print(v any, people func(*table)) error {
	if e.json {
		encoder := json.NewEncoder(e.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	}
	t := &table{tabwriter.NewWriter(e.out, 0, 8, 2, ' ', 0)}
	people(t)
	return t.w.Flush()
}

type table struct{ w *tabwriter.Writer }

// row writes one line. Times are in UTC to the second; nil is a dash.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = show(cell)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func show(cell any) string {
	switch v := cell.(type) {
	case time.Time:
		return v.UTC().Format(time.DateTime + "Z")
	case *time.Time:
		if v != nil {
			return show(*v)
		}
		return "-"
	case *int64:
		if v != nil {
			return fmt.Sprint(*v)
		}
		return "-"
	case *int32:
		if v != nil {
			return fmt.Sprint(*v)
		}
		return "-"
	case *string:
		if v != nil {
			return *v
		}
		return "-"
	}
	return fmt.Sprint(cell)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
