package simnode_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode/nodetest"
)

func TestConformance(t *testing.T) {
	nodetest.Run(t, func(*testing.T) nodetest.Env { return nodetest.NewSim() })
}

func TestConformanceOfSending(t *testing.T) {
	nodetest.RunSending(t, func(*testing.T) nodetest.SendingEnv { return nodetest.NewSim() })
}
