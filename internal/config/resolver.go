package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// FileFlag is the flag that names the settings file.
const FileFlag = "config"

// Variable is the environment variable of a flag.
func Variable(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Resolver gives a value to settings that are not on the command line: from the environment (entries "KEY=value"), else
// from the file that --config or HOLDFAST_CONFIG names, a JSON object whose keys are the names of flags. A command's
// own flags, such as how much it destroys or a confirmation, come only from the command line: somebody who types the
// command does not think of a variable left behind. A variable that is named like a setting but is none is refused.
func Resolver(environment []string) kong.Resolver {
	r := &resolver{environment: map[string]string{}}
	for _, entry := range environment {
		if key, value, ok := strings.Cut(entry, "="); ok {
			r.environment[key] = value
		}
	}
	return r
}

type resolver struct {
	environment map[string]string
	loaded      bool
	file        map[string]value
}

// value is what the file says of a setting. A number stays the text that it is, as in the environment: kong would round
// it, or take it for nanoseconds.
type value struct{ any }

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&v.any); err != nil {
		return err
	}
	if number, ok := v.any.(json.Number); ok {
		v.any = number.String()
	}
	return nil
}

// Validate implements kong.Resolver. Every command calls it once everything is read.
func (r *resolver) Validate(app *kong.Application) error {
	return unknown(r.environment, names(app.Flags))
}

func names(flags []*kong.Flag) []string {
	all := make([]string, len(flags))
	for i, flag := range flags {
		all[i] = flag.Name
	}
	return all
}

// Resolve implements kong.Resolver.
func (r *resolver) Resolve(ctx *kong.Context, path *kong.Path, flag *kong.Flag) (any, error) {
	if path.App == nil { // a command's own
		return nil, nil
	}
	if value, ok := r.environment[Variable(flag.Name)]; ok && value != "" {
		return value, nil
	}
	if flag.Name == FileFlag {
		return nil, nil
	}
	if err := r.load(ctx); err != nil {
		return nil, &FileError{err}
	}
	return r.file[flag.Name].any, nil
}

// FileError is a settings file that cannot be used. It concerns no flag, although kong prefixes it with the flag that
// it asked for first.
type FileError struct{ cause error }

func (e *FileError) Error() string { return e.cause.Error() }

func (e *FileError) Unwrap() error { return e.cause }

func (r *resolver) load(ctx *kong.Context) error {
	if r.loaded {
		return nil
	}
	r.loaded = true
	path := r.environment[Variable(FileFlag)]
	for _, flag := range ctx.Model.Flags {
		if flag.Name == FileFlag {
			if given, ok := ctx.FlagValue(flag).(string); ok && given != "" {
				path = given
			}
		}
	}
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if err := json.Unmarshal(content, &r.file); err != nil {
		return fmt.Errorf("the settings in %s are no JSON object: %w", path, err)
	}
	flags := names(ctx.Model.Flags)
	for key := range r.file {
		// A misspelt setting would silently leave its default in force.
		if !slices.Contains(flags, key) {
			return fmt.Errorf("the settings in %s have an unknown key %q; the keys are the names of flags, and the nearest one is %s", path, key, nearest(key, flags))
		}
	}
	return nil
}
