package bench

import "encoding/json"

// Line is the last line of the benchmark. Its names are fixed (spec 00 §0.2), because scripts rely on them. What was
// not measured is omitted.
type Line struct {
	CreditZap *Report                    `json:"credit_zap,omitempty"`
	Scale     *Scaled                    `json:"scale,omitempty"`
	Lightning *FlowReport                `json:"lightning,omitempty"`
	Growth    *Growth                    `json:"growth,omitempty"`
	Recovery  *Recovery                  `json:"recovery,omitempty"`
	Lock      map[string]json.RawMessage `json:"lock,omitempty"` // as reported by the lock's own benchmark
}
