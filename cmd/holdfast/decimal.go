package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// decimal are the parser's options that have it refuse a number with a leading zero. It would read it as octal, so that
// "migrate force 0046", which is how the file is called, would force 38.
func decimal() (options []kong.Option) {
	usual := kong.NewRegistry().RegisterDefaults()
	for _, t := range []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
	} {
		read := usual.ForType(t)
		options = append(options, kong.KindMapper(t.Kind(), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			text, _ := ctx.Scan.Peek().Value.(string)
			if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' {
				return fmt.Errorf("expected a decimal number without leading zeros but got %q", text)
			}
			return read.Decode(ctx, target)
		})))
	}
	return options
}
