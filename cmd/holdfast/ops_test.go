package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// exposed is the contents of the service's own registry: each metric's labels, and the series that already exist.
type exposed struct {
	t      *testing.T
	labels map[string][]string
	series map[string]*dto.MetricFamily
}

// described reads a metric's description, which client_golang offers in no other way.
var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// assemble makes the service with every role and one node, as serve does. Nothing of it runs.
func assemble(t *testing.T, more ...string) *service {
	t.Helper()
	_, setting := newNode(t)
	var c cli
	parser, err := kong.New(&c, kong.Resolvers(config.Resolver(settings(pgtest.New(t), append(more, setting)...))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatal(err)
	}
	e := &environment{config: &c.Config, out: io.Discard, log: slog.New(slog.DiscardHandler)}
	pool, err := openPool(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := newService(t.Context(), e, pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// expose reads the registry of the service. Nothing runs, so most series do not exist yet; but every metric is
// described.
func expose(t *testing.T) exposed {
	t.Helper()
	s := assemble(t)
	x := exposed{t, map[string][]string{}, map[string]*dto.MetricFamily{}}
	descriptions := make(chan *prometheus.Desc)
	go func() { s.registry.Describe(descriptions); close(descriptions) }()
	for d := range descriptions {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not understood: %s", d)
		}
		x.labels[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		x.series[f.GetName()] = f
	}
	for _, must := range []string{"holdfast_steps_total", "holdfast_actions_open", "holdfast_ready", "holdfast_relay_payments", "holdfast_reconcile_broken", "go_goroutines"} {
		if _, ok := x.labels[must]; !ok {
			t.Fatalf("%s is not described: does this test still look at the right place?", must)
		}
	}
	return x
}

// What the engine does is counted as its step, and as what it means for a payment that left.
func TestStepsAreCounted(t *testing.T) {
	t.Parallel()
	s := assemble(t)
	step, _ := paidaction.FindStep(paidaction.FlowWrapped, paidaction.Forwarded, paidaction.IncomingSettled)
	s.engine.Hooks.Moved(step)
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			counted[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	if counted["holdfast_steps_total"] != 1 || counted["holdfast_relay_confirmed_total"] != 1 {
		t.Errorf("%v steps and %v confirmations", counted["holdfast_steps_total"], counted["holdfast_relay_confirmed_total"])
	}
}

// given are the labels that Prometheus itself adds to every series.
var given = []string{"instance", "job"}

// metric is what is known of a name in an expression, in which the parts of a histogram are metrics of their own.
func (x exposed) metric(name string) (labels []string, counter, ok bool) {
	if labels, ok = x.labels[name]; ok {
		family := x.series[name]
		return append(slices.Clone(labels), given...), strings.HasSuffix(name, "_total") || family != nil && family.GetType() == dto.MetricType_COUNTER, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, cut := strings.CutSuffix(name, suffix)
		labels, ok := x.labels[base]
		if !cut || !ok || !strings.HasSuffix(base, "seconds") || x.series[base] != nil && x.series[base].GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		labels = append(slices.Clone(labels), given...)
		if suffix == "_bucket" {
			labels = append(labels, "le")
		}
		return labels, true, true
	}
	return nil, false, false
}

var (
	numeral  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	duration = regexp.MustCompile(`^[1-9][0-9]*[smhd]$`)
)

// check compares an expression with what is exposed, and returns the labels of its result. It refuses functions that it
// does not know, because the parser accepts more than Prometheus does.
func (x exposed) check(expr string) (labels []string) {
	x.t.Helper()
	parsed, err := metricsql.Parse(expr)
	if err != nil {
		x.t.Errorf("%s: %v", expr, err)
		return nil
	}
	var of func(e metricsql.Expr, ranged bool) []string
	refuse := func(what string) []string {
		x.t.Helper()
		x.t.Errorf("%s: %s", expr, what)
		return nil
	}
	of = func(e metricsql.Expr, ranged bool) []string {
		switch e := e.(type) {
		case *metricsql.NumberExpr:
			if text := string(e.AppendString(nil)); !numeral.MatchString(text) {
				return refuse(text + " is no number of Prometheus")
			}
			return nil
		case *metricsql.MetricExpr:
			if len(e.LabelFilterss) != 1 || len(e.LabelFilterss[0]) == 0 || e.LabelFilterss[0][0].Label != "__name__" {
				return refuse("a metric is meant by its name")
			}
			filters := e.LabelFilterss[0]
			name := filters[0].Value
			labels, counter, ok := x.metric(name)
			if !ok {
				return refuse(name + " is not exposed")
			}
			if counter != ranged {
				return refuse(name + ": a counter needs rate or increase, and nothing else has it")
			}
			for _, f := range filters[1:] {
				if !slices.Contains(labels, f.Label) {
					return refuse(name + " has no label " + f.Label)
				}
			}
			if family := x.series[name]; family != nil && !slices.ContainsFunc(family.Metric, func(m *dto.Metric) bool { return matches(m, filters[1:]) }) {
				return refuse(name + ": no series is like this")
			}
			return labels
		case *metricsql.RollupExpr: // elsewhere than in a function over a time: the metric as it was
			if e.Window != nil || e.At != nil || e.Offset == nil || !duration.Match(e.Offset.AppendString(nil)) || e.ForSubquery() {
				return refuse("what is " + string(e.AppendString(nil)) + "?")
			}
			return of(e.Expr, false)
		case *metricsql.FuncExpr:
			if e.KeepMetricNames {
				return refuse("keep_metric_names is not Prometheus's")
			}
			switch e.Name {
			case "rate", "increase", "last_over_time":
				r, ok := e.Args[0].(*metricsql.RollupExpr)
				if len(e.Args) != 1 || !ok || r.Window == nil || !duration.Match(r.Window.AppendString(nil)) || r.At != nil || r.ForSubquery() ||
					r.Offset != nil && (e.Name != "last_over_time" || !duration.Match(r.Offset.AppendString(nil))) {
					return refuse(e.Name + " needs one metric over a time")
				}
				return of(r.Expr, e.Name != "last_over_time")
			case "changes":
				return refuse("a gauge that a process shows first after it has changed never changes: compare it with what was seen before")
			case "time":
				return nil
			case "abs", "absent", "vector":
				labels := of(e.Args[0], false)
				if len(e.Args) != 1 || e.Name != "abs" {
					return nil
				}
				return labels
			case "histogram_quantile":
				labels := of(e.Args[1], false)
				if of(e.Args[0], false); !slices.Contains(labels, "le") {
					return refuse("quantiles need le")
				}
				return slices.DeleteFunc(labels, func(l string) bool { return l == "le" })
			}
			return refuse("the function " + e.Name + " is not known here")
		case *metricsql.AggrFuncExpr:
			if !slices.Contains([]string{"sum", "max", "min", "count"}, e.Name) || len(e.Args) != 1 || e.Limit != 0 || e.Modifier.Op != "by" && e.Modifier.Op != "" {
				return refuse("the aggregation " + e.Name + " is not known here")
			}
			labels := of(e.Args[0], false)
			for _, by := range e.Modifier.Args {
				if !slices.Contains(labels, by) {
					return refuse("nothing has the label " + by)
				}
			}
			return e.Modifier.Args
		case *metricsql.BinaryOpExpr:
			if !slices.Contains([]string{"+", "-", ">", "<", "==", "or"}, e.Op) || e.JoinModifier.Op != "" || e.KeepMetricNames {
				return refuse("the operator " + e.Op + " is not known here")
			}
			left, right := of(e.Left, false), of(e.Right, false)
			for _, l := range e.GroupModifier.Args {
				if !slices.Contains(left, l) || !slices.Contains(right, l) {
					return refuse("one side has no label " + l)
				}
			}
			if e.GroupModifier.Op == "ignoring" {
				left = slices.DeleteFunc(slices.Clone(left), func(l string) bool { return slices.Contains(e.GroupModifier.Args, l) })
			}
			return left
		}
		return refuse("what is " + string(e.AppendString(nil)) + "?")
	}
	return of(parsed, false)
}

func matches(m *dto.Metric, filters []metricsql.LabelFilter) bool {
	for _, f := range filters {
		value := ""
		for _, l := range m.Label {
			if l.GetName() == f.Label {
				value = l.GetValue()
			}
		}
		same := value == f.Value
		if f.IsRegexp {
			same = regexp.MustCompile(`^(?:` + f.Value + `)$`).MatchString(value)
		}
		if same == f.IsNegative {
			return false
		}
	}
	return true
}

// ops reads a file for operators.
func ops(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "ops", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAlertsAreOfWhatIsExposed(t *testing.T) {
	t.Parallel()
	x := expose(t)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(ops(t, "alerts.yml")))
	decoder.KnownFields(true) // as Prometheus does
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen, pages := map[string]bool{}, string(ops(t, "../docs/operations.md"))+string(ops(t, "../docs/reconcile.md"))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			labels := x.check(rule.Expr)
			if rule.Alert == "" || seen[rule.Alert] || !regexp.MustCompile(`^[A-Za-z]+$`).MatchString(rule.Alert) {
				t.Errorf("the name %q is empty, not the only one, or no name", rule.Alert)
			}
			seen[rule.Alert] = true
			if !regexp.MustCompile("(?m)^\\| `" + rule.Alert + "` \\| [^|]+ \\| [^|]{20,} \\|$").MatchString(pages) {
				t.Errorf("no row of a page's table says what to do about %s", rule.Alert)
			}
			if rule.For != "" && !duration.MatchString(rule.For) {
				t.Errorf("%s: for %q", rule.Alert, rule.For)
			}
			if !slices.Contains([]string{"page", "ticket"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
				t.Errorf("%s says neither how urgent it is nor what it is", rule.Alert)
			}
			for _, text := range rule.Annotations {
				for _, m := range regexp.MustCompile(`\{\{(.*?)\}\}`).FindAllStringSubmatch(text, -1) {
					label, ok := strings.CutPrefix(strings.TrimSpace(m[1]), "$labels.")
					if ok && !slices.Contains(labels, label) || !ok && strings.TrimSpace(m[1]) != "$value" {
						t.Errorf("%s: %s, of %v", rule.Alert, m[0], labels)
					}
				}
			}
		}
	}
	if len(seen) == 0 {
		t.Error("there is no rule")
	}
	for _, m := range regexp.MustCompile("`(Holdfast[A-Za-z]+)`").FindAllStringSubmatch(pages, -1) {
		if !seen[m[1]] {
			t.Errorf("a page names %s, and there is no such rule", m[1])
		}
	}
}

func TestDashboardIsOfWhatIsExposed(t *testing.T) {
	t.Parallel()
	x := expose(t)
	var board struct {
		UID, Title string
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(ops(t, "dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i, panel := range board.Panels {
		for _, other := range board.Panels[:i] {
			a, b := panel.GridPos, other.GridPos
			if panel.ID == other.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s, or has its number", panel.Title, other.Title)
			}
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			asked++
			labels := x.check(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			for _, m := range regexp.MustCompile(`\{\{(.*?)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: %s, of %v", panel.Title, m[0], labels)
				}
			}
		}
	}
	if asked == 0 || board.UID == "" || board.Title == "" {
		t.Error("there is no dashboard")
	}
}

// TestDocumentsNameMetricsThatExist also keeps old names out of the table of what to watch.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	x := expose(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v, %v", pages, err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(holdfast_[a-z_]+[a-z])[`{]").FindAllStringSubmatch(string(text), -1) {
			if _, _, ok := x.metric(m[1]); !ok {
				t.Errorf("%s names %s, which is not exposed", filepath.Base(page), m[1])
			}
			named++
		}
	}
	if named == 0 {
		t.Error("no metric is named: does this test still look at the right place?")
	}
}
