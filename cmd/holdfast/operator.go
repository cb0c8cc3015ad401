package main

import (
	"context"
	"net/http"

	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// operatorPages are the operator's pages. River's page counts in the background until ctx ends, if anybody looks at it.
func (s *service) operatorPages(ctx context.Context) (http.Handler, error) {
	jobs, err := worker.NewJobsPage(ctx, s.pool, operator.JobsPath, s.log)
	if err != nil {
		return nil, err
	}
	c := operator.PageConfig{Lookout: s.lookout, Pool: s.pool, Key: s.config.OperatorKey, Parts: s.readiness.named, Jobs: jobs, Log: s.log}
	if s.places != nil {
		c.Nodes = s.sendingNodes
	}
	return operator.NewHandler(c), nil
}

func (s *service) sendingNodes(ctx context.Context) ([]operator.Node, error) {
	stand, err := s.places.Health(ctx)
	if err != nil {
		return nil, err
	}
	nodes := make([]operator.Node, len(stand))
	for i, n := range stand {
		nodes[i] = operator.Node{Name: n.Name, InFlight: n.InFlight, Slots: n.Slots, OutboundMsat: int64(n.Outbound), Height: n.Height}
		if !n.Eligible {
			nodes[i].WhyNot = n.Why
		}
	}
	return nodes, nil
}
