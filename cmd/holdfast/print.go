package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
)

// print writes v as JSON if that is wanted, else as the table that people lays out.
func (e *environment) print(v any, people func(*table)) error {
	if e.json {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.out, visible(string(text)))
		return err
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
		texts[i] = visible(show(cell))
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// visible writes characters that are not to be seen as JSON can write them. Payers say what they like, and a terminal
// would obey it, or show the rest of a line in another order. Line breaks stay: JSON has them between its lines alone.
func visible(text string) string {
	var seen strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' {
			seen.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&seen, `\u%04x`, half)
		}
	}
	return seen.String()
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
