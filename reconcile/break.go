package reconcile

import (
	"fmt"
	"strings"
)

// Kind is one way in which an invariant can be broken.
type Kind struct {
	Invariant int    // 1 to 10
	Name      string // stable, and unique within the invariant
	Checked   string // the query or the look-up that finds it
	Means     string
	Mend      string // what to do; {action}, {other} and {node} stand for what is involved
}

var kinds []*Kind

// Kinds returns all kinds of break, in the order of the invariants.
func Kinds() []*Kind { return kinds }

func kind(invariant int, name, checked, means, mend string) *Kind {
	k := &Kind{Invariant: invariant, Name: name, Checked: checked, Means: means, Mend: mend}
	kinds = append(kinds, k)
	return k
}

// Break is one thing that is not as it must be.
type Break struct {
	Kind    string  `json:"kind"`
	What    string  `json:"explanation"`
	Actions []int64 `json:"actions,omitempty"`
	Node    string  `json:"node,omitempty"`
	Hash    string  `json:"payment_hash,omitempty"` // in hex
	Mend    string  `json:"mend"`

	kind *Kind
}

// String returns the explanation.
func (b Break) String() string { return b.What }

// at is what a break is about. The zero value means that it is about nothing that has a name.
type at struct {
	actions []int64
	node    string
	hash    string
}

func (k *Kind) broken(a at, format string, args ...any) Break {
	node := a.node
	if node == "" {
		node = "NAME"
	}
	mend := []string{"{node}", node}
	for i, name := range []string{"{action}", "{other}"} {
		if i < len(a.actions) {
			mend = append(mend, name, fmt.Sprint(a.actions[i]))
		}
	}
	return Break{Kind: k.Name, What: fmt.Sprintf(format, args...), Actions: a.actions, Node: a.node, Hash: a.hash,
		Mend: strings.NewReplacer(mend...).Replace(k.Mend), kind: k}
}

// key identifies a break. The explanation may differ at the next look (a deadline is further past), so it is part of
// the key only where there is no action and no hash: for an account or a guard. Such a break lasts, so it is not looked
// for again.
func (b Break) key() string {
	if len(b.Actions) == 0 && b.Hash == "" {
		return fmt.Sprintf("%d %s %s %s", b.kind.Invariant, b.Kind, b.Node, b.What)
	}
	return fmt.Sprintf("%d %s %v %s %s", b.kind.Invariant, b.Kind, b.Actions, b.Node, b.Hash)
}

func of(actions ...int64) at { return at{actions: actions} }
