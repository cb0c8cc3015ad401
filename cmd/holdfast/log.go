package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func newLogger(c *config.Config, to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(withAction{slog.NewJSONHandler(to, options)})
	}
	return slog.New(withAction{slog.NewTextHandler(to, options)})
}

// withAction adds to each line the number of the action in work, unless the line names it itself.
type withAction struct{ slog.Handler }

func (h withAction) Handle(ctx context.Context, r slog.Record) error {
	if action, ok := paidaction.ActionOf(ctx); ok {
		named := false
		r.Attrs(func(a slog.Attr) bool { named = a.Key == "action"; return !named })
		if !named {
			r = r.Clone()
			r.AddAttrs(slog.Int64("action", action))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h withAction) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withAction{h.Handler.WithAttrs(attrs)}
}

func (h withAction) WithGroup(name string) slog.Handler { return withAction{h.Handler.WithGroup(name)} }
