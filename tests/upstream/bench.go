package main

import (
	"context"
	"time"
)

// measurement is one line of output of bench. All times are of Allocate alone, in nanoseconds: the allocator is made
// once a repetition outside of the clock, as the scheduler makes it once a scheduling cycle.
type measurement struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`      // some node fits
	Error   string `json:"error"`   // of the last node, if none fits
	Timeout bool   `json:"timeout"` // the time cap ended the measurement; what was measured so far is kept
	Node    string `json:"node"`    // the first node that fits
	Fits    int    `json:"fits"`    // how many nodes fit
	Nodes   int    `json:"nodes"`   // how many nodes were asked
	ColdNS  int64  `json:"coldNs"`  // until the first node fits, the first time, expressions compiled on the way
	NS      int64  `json:"ns"`      // until the first node fits, best of the repetitions
	AllNS   int64  `json:"allNs"`   // asking every node, best of the repetitions
	Steps   int64  `json:"steps"`   // of one repetition over every node
}

func answerBench(line []byte, timeout time.Duration) any {
	p, err := decodeProblem(line)
	if err != nil {
		return measurement{Name: nameOf(line), Error: err.Error()}
	}
	if len(p.Nodes) == 0 {
		p.Nodes = append(p.Nodes, p.Node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cold := measureOnce(ctx, p)
	cold.Name, cold.ColdNS = p.Name, cold.NS
	best := cold
	for range max(p.Repeat, 1) {
		if best.Timeout || best.Error != "" && !best.OK {
			break
		}
		next := measureOnce(ctx, p)
		if next.Timeout {
			break
		}
		best.NS = min(best.NS, next.NS)
		best.AllNS = min(best.AllNS, next.AllNS)
	}
	return best
}

// measureOnce asks every node in order.
func measureOnce(ctx context.Context, p *problem) measurement {
	reply := measurement{}
	allocator, err := newAllocator(ctx, p)
	if err != nil {
		return measurement{Error: err.Error()}
	}
	for _, node := range p.Nodes {
		tried := tryNode(ctx, allocator, node, p.claims())
		reply.Nodes++
		reply.AllNS += tried.NS
		if tried.Timeout {
			reply.Timeout = true
			break
		}
		if reply.Fits == 0 {
			reply.NS, reply.Error = reply.AllNS, tried.Error
		}
		if tried.OK {
			reply.Fits++
			if !reply.OK {
				reply.OK, reply.Node = true, node.Name
			}
		}
	}
	reply.Steps = stepsOf(allocator)
	return reply
}
