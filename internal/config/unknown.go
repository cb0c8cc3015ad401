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

// elsewhere matches variables that belong to others. Some are of the repository's tests and of holdfast-dev, which pass
// their environment on to the service that they start. The others Kubernetes puts into every container of a namespace
// that has a service called holdfast, or holdfast-something.
var elsewhere = regexp.MustCompile(`^HOLDFAST_(BIN|SHOTS|TEST_\w+|(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?))=|^HOLDFAST_(\w+_)?PORT=\w+://`)

// unknown refuses variables that are named like settings but are none: when a setting is misspelt, its default would
// silently stay in force, and some settings limit money. Values are not shown. Empty variables are ignored, whatever
// their name.
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

// nearest is the one of names with the smallest edit distance from name.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}
