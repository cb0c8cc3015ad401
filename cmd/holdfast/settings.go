package main

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
)

type configCommand struct {
	Print configPrint `cmd:"" help:"Print the settings in force, without secrets. Exit code 64 if serve would refuse them."`
}

type configPrint struct{}

func (configPrint) Run(e *environment, kctx *kong.Context) error {
	values := map[string]any{}
	var names []string
	for _, flag := range kctx.Model.Flags {
		if slices.Contains([]string{"help", "json", config.FileFlag}, flag.Name) {
			continue
		}
		value := flag.Target.Interface()
		if s, ok := value.(fmt.Stringer); ok {
			value = s.String()
		}
		values[flag.Name] = value
		names = append(names, flag.Name)
	}
	if err := e.print(values, func(t *table) {
		for _, name := range names {
			t.row(name, values[name])
		}
	}); err != nil {
		return err
	}
	return checked(e)
}

// checked returns what is wrong with the settings.
func checked(e *environment) error {
	if err := e.config.Check(); err != nil {
		return fmt.Errorf("%w:\n%w", errSettings, err)
	}
	return nil
}
