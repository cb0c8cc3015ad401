package main

import (
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/coreos/go-systemd/v22/unit"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
)

// The files in deploy name commands, settings and paths of this program. These tests check each of them against the
// program.

const (
	top    = "../../"
	deploy = top + "deploy/"
)

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// understood fails the test unless the program accepts these arguments.
func understood(t *testing.T, where string, args []string) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Name("holdfast"), kong.Writers(io.Discard, io.Discard), kong.Resolvers(config.Resolver(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("%s calls holdfast %s: %v", where, strings.Join(args, " "), err)
	}
}

func TestDeployedSettingsExist(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, flag := range parser.Model.Flags {
		known = append(known, config.Variable(flag.Name))
	}
	files, err := filepath.Glob(deploy + "*")
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob(deploy + "systemd/*")
	if err != nil || len(units) == 0 {
		t.Fatalf("no units: %v", err)
	}
	named := 0
	for _, file := range append(files, units...) {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		for _, variable := range regexp.MustCompile(`HOLDFAST_[A-Z_]+`).FindAllString(textOf(t, file), -1) {
			if named++; !slices.Contains(known, variable) {
				t.Errorf("%s names %s, which is no setting", file, variable)
			}
		}
	}
	if named == 0 {
		t.Error("no setting is named: does this test still look at the right place?")
	}
}

// serve accepts the example file, except for the secret, which it must not contain.
func TestDeployedFileOfSettings(t *testing.T) {
	t.Parallel()
	const file = deploy + "holdfast.json"
	if code, _, said := command(t, nil, "config", "print", "--config", file); code != exitUsage || !strings.Contains(said, "HOLDFAST_SECRET") {
		t.Errorf("without a secret: exit code %d\n%s", code, said)
	}
	code, out, said := command(t, []string{"HOLDFAST_SECRET=" + strings.Repeat("5a", 32)}, "config", "print", "--config", file)
	var values map[string]any
	if err := json.Unmarshal([]byte(out), &values); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s", code, err, said)
	}
	if values["network"] != "mainnet" || values["development"] != false || values["listen"] != "127.0.0.1:8080" {
		t.Errorf("%v", values)
	}
}

// instruction is one of a Dockerfile, with its continued lines.
type instruction struct{ name, rest string }

// imageStages reads the subset of a Dockerfile's language that ours is written in.
func imageStages(t *testing.T, text string) (all [][]instruction) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for _, line := range strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " "), "\n") {
		name, rest, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"FROM", "WORKDIR", "ENV", "COPY", "RUN", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"}, name) {
			t.Fatalf("the Dockerfile has %s, which this test does not know", line)
		}
		if name == "FROM" {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

// restOf are the instructions with this name, without the name.
func restOf(stage []instruction, name string) (rest []string) {
	for _, i := range stage {
		if i.name == name {
			rest = append(rest, i.rest)
		}
	}
	return rest
}

// onlyOf is the only instruction with this name.
func onlyOf(t *testing.T, stage []instruction, name string) string {
	t.Helper()
	found := restOf(stage, name)
	if len(found) != 1 {
		t.Fatalf("the stage has %s %d times", name, len(found))
	}
	return found[0]
}

// jsonWords are the words of a command in JSON.
func jsonWords(t *testing.T, text string) (all []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 {
		t.Fatalf("%s is no command in JSON: %v", text, err)
	}
	return all
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	all := imageStages(t, textOf(t, deploy+"Dockerfile"))
	if len(all) != 2 {
		t.Fatalf("%d stages", len(all))
	}
	build, final := all[0], all[1]
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(textOf(t, top+"go.mod"))[1]
	if from := onlyOf(t, build, "FROM"); from != "golang:"+language+" AS build" {
		t.Errorf("it is built from %s, and go.mod says %s", from, language)
	}
	if onlyOf(t, final, "FROM") != "scratch" || restOf(final, "RUN") != nil || restOf(final, "ENV") != nil {
		t.Error("the image holds more than was copied into it")
	}
	if user := onlyOf(t, final, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("it runs as %s: root, or a name that an image without /etc/passwd cannot know", user)
	}
	entry := jsonWords(t, onlyOf(t, final, "ENTRYPOINT"))
	if !slices.ContainsFunc(restOf(final, "COPY"), func(c string) bool { return strings.HasSuffix(c, " "+entry[0]) }) || len(entry) != 1 {
		t.Errorf("%v is started, which is not what was copied", entry)
	}
	understood(t, "CMD", jsonWords(t, onlyOf(t, final, "CMD")))
	options, check, _ := strings.Cut(onlyOf(t, final, "HEALTHCHECK"), " CMD ")
	if asked := jsonWords(t, check); asked[0] != entry[0] || asked[1] != "healthcheck" {
		t.Errorf("it is asked by %v", asked)
	} else {
		understood(t, "HEALTHCHECK", asked[1:])
	}
	if m := regexp.MustCompile(`--timeout=(\S+)`).FindStringSubmatch(options); m == nil || durationOf(t, m[1]) <= healthcheckTimeout {
		t.Errorf("%s gives the check less time than it takes", options)
	}
}

// The build stage's own command, in its own environment and with only the files that it may see, makes a static program
// that runs.
func TestDockerfileBuilds(t *testing.T) {
	t.Parallel()
	build := imageStages(t, textOf(t, deploy+"Dockerfile"))[0]
	fresh, out := t.TempDir(), t.TempDir()
	ignore := textOf(t, deploy+"Dockerfile.dockerignore")
	if !strings.Contains(ignore, "\n*\n") {
		t.Fatal("the build sees more than it is allowed by name")
	}
	for _, m := range regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(ignore, -1) {
		if err := exec.CommandContext(t.Context(), "cp", "-r", top+m[1], fresh).Run(); err != nil {
			t.Fatalf("%s is not there: %v", m[1], err)
		}
	}
	var commands []string
	for _, run := range restOf(build, "RUN") {
		run = regexp.MustCompile(`--mount=\S+`).ReplaceAllString(run, "")
		commands = append(commands, strings.ReplaceAll(run, "/out/", out+"/"))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", "export "+onlyOf(t, build, "ENV")+"\n"+strings.Join(commands, "\n"))
	cmd.Dir = fresh
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	program := filepath.Join(out, "holdfast")
	binary, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 ||
		slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("it is not static: %v, %v", libraries, err)
	}
	asked := exec.CommandContext(t.Context(), program, "config", "print")
	asked.Env = []string{"HOLDFAST_SECRET=" + strings.Repeat("5a", 32)} // nothing else, as in the image
	if said, err := asked.CombinedOutput(); err != nil || !strings.Contains(string(said), `"127.0.0.1:8080"`) {
		t.Errorf("%v\n%s", err, said)
	}
}

func durationOf(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// composed is what the compose file says, and its path.
func composed(t *testing.T) (project *types.Project, file string) {
	t.Helper()
	file, err := filepath.Abs(deploy + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err = loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: types.Mapping{}})
	if err != nil {
		t.Fatal(err)
	}
	return project, file
}

// No service's log fills the disk that the database is on.
func TestLogsOfContainersAreBounded(t *testing.T) {
	t.Parallel()
	project, _ := composed(t)
	for name, s := range project.Services {
		if s.Logging == nil || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			t.Errorf("the log of %s has no bound", name)
		}
	}
}

// What the documents tell to give to Docker works from the repository's directory: it names the file, services that are
// in it, and commands of this program. A container for one command starts nothing else: the service's would migrate.
func TestDockerInTheDocuments(t *testing.T) {
	t.Parallel()
	project, _ := composed(t)
	documents, err := filepath.Glob(top + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, file := range append(documents, top+"README.md", deploy+"compose.yaml") {
		for _, line := range regexp.MustCompile("docker compose[^`\n]*").FindAllString(textOf(t, file), -1) {
			rest, named := strings.CutPrefix(line, "docker compose --file deploy/compose.yaml ")
			words := strings.Fields(rest)
			if !named || len(words) == 0 {
				t.Errorf("%s: %q does not name the file", file, line)
				continue
			}
			verb, services := words[0], words[1:]
			for len(services) > 0 && strings.HasPrefix(services[0], "--") {
				services = services[1:]
			}
			switch {
			case verb == "run" && slices.Contains(words, "--rm") && slices.Contains(words, "--no-deps") && len(services) > 0:
				understood(t, file, services[1:])
				services = services[:1]
			case verb == "exec" && len(services) > 1 && services[1] == "/holdfast":
				understood(t, file, services[2:])
				services = services[:1]
			case !slices.Contains([]string{"up", "stop", "build"}, verb):
				t.Errorf("%s: %q is not what is meant", file, line)
			}
			for _, s := range services {
				if _, there := project.Services[s]; !there {
					t.Errorf("%s: %q names the service %s, which is not in the file", file, line, s)
				}
			}
			told[verb] = true
		}
	}
	if !told["up"] || !told["exec"] || !told["run"] || !told["stop"] {
		t.Errorf("only %v: does this test still look at the right place?", told)
	}
}

func TestComposeFile(t *testing.T) {
	t.Parallel()
	project, file := composed(t)
	given := struct{ DatabaseURL, Nodes string }{}
	var example map[string]string
	if err := json.Unmarshal([]byte(textOf(t, deploy+"holdfast.json")), &example); err != nil {
		t.Fatal(err)
	}
	given.DatabaseURL, given.Nodes = example["database-url"], example["nodes"]
	for name, s := range project.Services {
		if len(s.Ports) > 0 || s.NetworkMode != "none" && name != "holdfast" {
			t.Errorf("%s can be reached from elsewhere: %v, network %s", name, s.Ports, s.NetworkMode)
		}
		if name == "postgres" {
			if s.HealthCheck == nil || !slices.Contains(s.Command, "listen_addresses=") {
				t.Errorf("postgres: %+v", s)
			}
			if made := s.Environment["POSTGRES_INITDB_ARGS"]; made == nil || !strings.Contains(*made, "--encoding=UTF8 --locale=C") {
				t.Errorf("postgres is made in another encoding, or sorts by rules that change: %v", made)
			}
			continue
		}
		understood(t, name, s.Command)
		if s.Build == nil || filepath.Join(s.Build.Context, s.Build.Dockerfile) != filepath.Join(filepath.Dir(file), "Dockerfile") {
			t.Errorf("%s is built from %+v", name, s.Build)
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged || s.User != "" {
			t.Errorf("%s may more than it needs: %+v", name, s)
		}
		if s.DependsOn["postgres"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s does not wait for the database", name)
		}
		// The database's socket and the settings' files are where the settings look for them.
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Source == "socket" && strings.HasSuffix(given.DatabaseURL, "?host="+v.Target)
		}) {
			t.Errorf("%s does not have the socket of %s", name, given.DatabaseURL)
		}
		for _, secret := range s.Secrets {
			needed := secret.Target == *s.Environment["HOLDFAST_CONFIG"] || strings.Contains(given.Nodes+";", "="+secret.Target+";")
			if from := project.Secrets[secret.Source].File; !needed || path.Base(from) != path.Base(secret.Target) ||
				filepath.Dir(from) != filepath.Join(filepath.Dir(file), "secrets") {
				t.Errorf("%s has %s from %s, which nothing names", name, secret.Target, from)
			}
		}
	}
	s := project.Services["holdfast"]
	if s.NetworkMode != "host" || len(s.Secrets) != 3 || s.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
		t.Errorf("holdfast: %+v", s)
	}
	if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 2*shutdownTimeout {
		t.Errorf("it is killed after %s, and takes up to %s", s.StopGracePeriod, shutdownTimeout)
	}
	if !strings.Contains(textOf(t, top+".gitignore"), "/deploy/secrets/") {
		t.Error("the secrets are not kept out of git")
	}
}

// unitOptions are a unit's options: by section and name, all values in order.
func unitOptions(t *testing.T, name string) map[string][]string {
	t.Helper()
	list, err := unit.Deserialize(strings.NewReader(textOf(t, deploy+"systemd/"+name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all := map[string][]string{}
	for _, o := range list {
		all[o.Section+" "+o.Name] = append(all[o.Section+" "+o.Name], o.Value)
	}
	return all
}

func TestUnits(t *testing.T) {
	t.Parallel()
	service, daily, timer := unitOptions(t, "holdfast.service"), unitOptions(t, "holdfast-reconcile.service"), unitOptions(t, "holdfast-reconcile.timer")
	for name, u := range map[string]map[string][]string{"holdfast.service": service, "holdfast-reconcile.service": daily} {
		if len(u["Service ExecStart"]) != 1 || len(u["Service ExecStartPre"]) > 0 {
			t.Errorf("%s: %v, and before it %v, whose exit code stops no restart", name, u["Service ExecStart"], u["Service ExecStartPre"])
		}
		started := u["Service ExecStart"][0]
		if script, ok := strings.CutPrefix(started, "/bin/sh -c '"); ok {
			started = strings.TrimSuffix(script, "'")
		}
		steps := strings.Split(started, " && ")
		for i, step := range steps {
			if i > 0 && i == len(steps)-1 { // or signals would go to the shell
				step = strings.TrimPrefix(step, "exec ")
			}
			args, ok := strings.CutPrefix(strings.TrimSuffix(step, " >/dev/null"), "/usr/local/bin/holdfast ")
			if !ok {
				t.Errorf("%s starts %s", name, step)
			}
			understood(t, name, strings.Fields(args))
		}
		if !slices.Equal(u["Service Environment"], []string{"HOLDFAST_CONFIG=/etc/holdfast/holdfast.json"}) || u["Service User"][0] != "holdfast" {
			t.Errorf("%s: %v as %v", name, u["Service Environment"], u["Service User"])
		}
	}
	if stop := service["Service TimeoutStopSec"]; len(stop) != 1 || durationOf(t, stop[0]+"s") < 2*shutdownTimeout {
		t.Errorf("it is killed after %v seconds, and takes up to %s", stop, shutdownTimeout)
	}
	if kind, start := service["Service Type"], service["Service ExecStart"]; !slices.Equal(kind, []string{"exec"}) || !strings.Contains(start[0], "config print >/dev/null && /usr/local/bin/holdfast migrate up && exec ") {
		t.Errorf("a migration that takes longer than a minute and a half is killed, or serve gets no signal: %v, %v", kind, start)
	}
	if prevented := service["Service RestartPreventExitStatus"]; !slices.Equal(prevented, []string{strconv.Itoa(exitUsage)}) {
		t.Error("it is started again and again with settings that it refuses")
	} else if prevented[0] == "2" {
		t.Error("it is not started again after a panic, which ends a Go program with 2")
	}
	// Both are confined in the same way.
	var strict []string
	for key, values := range service {
		if regexp.MustCompile(`^Service (Protect|Private|Restrict|SystemCall|NoNew|Capab|Lock|Memory|Remove|Keyring|UMask)`).MatchString(key) {
			if strict = append(strict, key); !slices.Equal(daily[key], values) {
				t.Errorf("%s: %v here, %v there", key, values, daily[key])
			}
		}
	}
	if len(strict) < 20 {
		t.Errorf("only %v", strict)
	}
	if len(timer["Timer OnCalendar"]) != 1 || timer["Install WantedBy"][0] != "timers.target" {
		t.Errorf("the timer: %v", timer)
	}
}
