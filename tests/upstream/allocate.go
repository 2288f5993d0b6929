package main

import (
	"context"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocation is one line of output of allocate. Not ok without an error means unsatisfiable.
type allocation struct {
	Name    string                         `json:"name"`
	OK      bool                           `json:"ok"`
	Error   string                         `json:"error"`
	Timeout bool                           `json:"timeout,omitempty"`
	Results []resourceapi.AllocationResult `json:"results"`
	Reasons []string                       `json:"reasons"`
	Steps   int64                          `json:"steps"`
	NS      int64                          `json:"ns"`
}

func answerAllocate(line []byte, timeout time.Duration) any {
	p, err := decodeProblem(line)
	if err != nil {
		return refusal(nameOf(line), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	allocator, err := newAllocator(ctx, p)
	if err != nil {
		return refusal(p.Name, err)
	}
	reply := tryNode(ctx, allocator, p.Node, p.claims())
	reply.Name = p.Name
	reply.Steps = stepsOf(allocator)
	return reply
}

func newAllocator(ctx context.Context, p *problem) (structured.Allocator, error) {
	features, err := p.features()
	if err != nil {
		return nil, err
	}
	return structured.NewAllocator(ctx, features, p.allocatedState(), p.classLister(), p.Slices, expressionCache(features))
}

func tryNode(ctx context.Context, allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim) allocation {
	reply := allocation{Results: []resourceapi.AllocationResult{}, Reasons: []string{}}
	start := time.Now()
	results, err := allocator.Allocate(ctx, node, claims)
	reply.NS = time.Since(start).Nanoseconds()
	switch {
	case err != nil && ctx.Err() != nil:
		reply.Timeout = true
	case err != nil:
		reply.Error = err.Error()
	case results != nil:
		reply.OK = true
		normalise(results)
		reply.Results = results
	}
	return reply
}

// normalise makes results comparable: share IDs are random, and quantities from 1e21 on lose their exponent when
// written in decimal format.
func normalise(results []resourceapi.AllocationResult) {
	for i := range results {
		for j := range results[i].Devices.Results {
			device := &results[i].Devices.Results[j]
			if device.ShareID != nil {
				share := normalShareID
				device.ShareID = &share
			}
			for name, quantity := range device.ConsumedCapacity {
				if written, err := resource.ParseQuantity(quantity.String()); err != nil || written.Cmp(quantity) != 0 {
					device.ConsumedCapacity[name] = *resource.NewDecimalQuantity(*quantity.AsDec(), resource.DecimalExponent)
				}
			}
		}
	}
}

// stepsOf reads how often the search looked for one more device. The method's result type is internal to the
// module, so it can only be reached by reflection; the implementations that do not count answer zero.
func stepsOf(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}

func refusal(name string, err error) allocation {
	return allocation{Name: name, Error: err.Error(), Results: []resourceapi.AllocationResult{}, Reasons: []string{}}
}
