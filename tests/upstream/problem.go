package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// normalShareID replaces every share ID, in and out: they are random, and only their presence can be compared.
const normalShareID = types.UID("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa")

// problem is one line of input of allocate and bench.
type problem struct {
	Name                     string                       `json:"name"`
	Node                     *v1.Node                     `json:"node"`
	Nodes                    []*v1.Node                   `json:"nodes"`
	Slices                   []*resourceapi.ResourceSlice `json:"slices"`
	Classes                  []*resourceapi.DeviceClass   `json:"classes"`
	Claims                   []*resourceapi.ResourceClaim `json:"claims"`
	ClaimsToAllocate         []*resourceapi.ResourceClaim `json:"claimsToAllocate"`
	AllocatedDevices         []deviceID                   `json:"allocatedDevices"`
	AllocatedSharedDeviceIDs []deviceID                   `json:"allocatedSharedDeviceIDs"`
	AllocatedCapacityDevices []consumedCapacity           `json:"allocatedCapacityDevices"`
	Features                 json.RawMessage              `json:"features"`
	Repeat                   int                          `json:"repeat"`
}

type deviceID struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

func (d deviceID) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

type consumedCapacity struct {
	deviceID
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity"`
}

func decodeProblem(line []byte) (*problem, error) {
	p := &problem{}
	// Kubernetes' own decoder: field names are case-sensitive.
	if err := utiljson.Unmarshal(line, p); err != nil {
		return p, fmt.Errorf("not a problem: %w", err)
	}
	if p.Node == nil && len(p.Nodes) == 0 {
		return p, errors.New("not a problem: node is missing")
	}
	return p, nil
}

func (p *problem) claims() []*resourceapi.ResourceClaim {
	if len(p.Claims) > 0 {
		return p.Claims
	}
	return p.ClaimsToAllocate
}

var allFeatures = structured.Features{
	AdminAccess:             true,
	CompatibilityGroups:     true,
	ConsumableCapacity:      true,
	DerivedAttributes:       true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	ListTypeAttributes:      true,
	OptionalNodeOperations:  true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// features are all on when the field is absent or null, else exactly those named as true.
func (p *problem) features() (structured.Features, error) {
	if text := strings.TrimSpace(string(p.Features)); text == "" || text == "null" {
		return allFeatures, nil
	}
	var features structured.Features
	decoder := json.NewDecoder(bytes.NewReader(p.Features))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&features); err != nil {
		return features, fmt.Errorf("features: %w", err)
	}
	return features, nil
}

func (p *problem) allocatedState() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range p.AllocatedDevices {
		state.AllocatedDevices.Insert(device.id())
	}
	for _, device := range p.AllocatedSharedDeviceIDs {
		share := normalShareID
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device.id(), &share))
	}
	for _, device := range p.AllocatedCapacityDevices {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device.id(), device.ConsumedCapacity))
	}
	return state
}

// classes looks device classes up by name.
type classes map[string]*resourceapi.DeviceClass

func (p *problem) classLister() classes {
	byName := make(classes, len(p.Classes))
	for _, class := range p.Classes {
		byName[class.Name] = class
	}
	return byName
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	class, found := c[name]
	if !found {
		return nil, fmt.Errorf("device class %q not found", name)
	}
	return class, nil
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	list := make([]*resourceapi.DeviceClass, 0, len(c))
	for _, class := range c {
		list = append(list, class)
	}
	return list, nil
}

// expressionCaches keep compiled expressions between problems: building a CEL environment takes milliseconds.
var expressionCaches = map[cel.Features]*cel.Cache{}

func expressionCache(features structured.Features) *cel.Cache {
	key := cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	cache, found := expressionCaches[key]
	if !found {
		cache = cel.NewCache(1000, key)
		expressionCaches[key] = cache
	}
	return cache
}
