package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// elsewhere are variables that are somebody else's: of the repository's tests and of holdfast-dev, which hand on what they have to the service that they start, and those that
// Kubernetes puts into every container of a namespace with a service called holdfast, or holdfast-something.
var elsewhere = regexp.MustCompile(`^HOLDFAST_(BIN|SHOTS|TEST_\w+|(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?))=|^HOLDFAST_(\w+_)?PORT=\w+://`)

// unknown refuses variables that would be settings by their name and are none: of a misspelt one the default would silently stay in force, and some are limits on money.
// Their values are not told. An empty one says nothing, however it is spelt.
func unknown(environment map[string]string, flags []string) error {
	variables := make([]string, len(flags))
	for i, flag := range flags {
		variables[i] = Variable(flag)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		value := environment[name]
		if value == "" || !strings.HasPrefix(name, Variable("")) || slices.Contains(variables, name) || elsewhere.MatchString(name+"="+value) {
			continue
		}
		problems = append(problems, fmt.Errorf("%s is no setting; the nearest one is %s: correct it, or unset it. What one command alone has is given as its flag", name, nearest(name, variables)))
	}
	return errors.Join(problems...)
}

// nearest is the one of names that the fewest single letters tell from name.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}
