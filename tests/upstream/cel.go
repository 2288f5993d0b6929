package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// answerCEL takes a line as plain CEL if it has bindings, declarations or a container, else as a question about a
// device.
func answerCEL(line []byte) any {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return map[string]any{"name": nameOf(line), "error": fmt.Sprintf("not an expression: %v", err)}
	}
	for _, plain := range []string{"bindings", "declarations", "container"} {
		if _, found := fields[plain]; found {
			return answerPlain(line)
		}
	}
	return answerDevice(line)
}

// deviceQuestion is a line of input about a device. The zero of envType is StoredExpressions, the environment of the
// allocator; absent features are all on.
type deviceQuestion struct {
	Name                     string                                                    `json:"name"`
	Expression               string                                                    `json:"expression"`
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Derived                  bool                                                      `json:"derived"`
	EnvType                  string                                                    `json:"envType"`
	Features                 *celFeatures                                              `json:"features"`
}

type celFeatures struct {
	EnableConsumableCapacity bool
	EnableListTypeAttributes bool
}

// deviceAnswer has the match of a selector or the attribute that a derived attribute's expression gives.
type deviceAnswer struct {
	Name         string                       `json:"name"`
	CompileError string                       `json:"compileError"`
	OutputType   string                       `json:"outputType,omitempty"`
	Match        bool                         `json:"match"`
	Attribute    *resourceapi.DeviceAttribute `json:"attribute,omitempty"`
	MatchError   string                       `json:"matchError"`
	MaxCost      uint64                       `json:"maxCost"`
	Cost         *uint64                      `json:"cost"`
	Error        string                       `json:"error,omitempty"`
}

func answerDevice(line []byte) any {
	question := deviceQuestion{}
	if err := utiljson.Unmarshal(line, &question); err != nil {
		return deviceAnswer{Name: nameOf(line), Error: fmt.Sprintf("not an expression: %v", err)}
	}
	envType := environment.StoredExpressions
	switch question.EnvType {
	case "", "StoredExpressions":
	case "NewExpressions":
		envType = environment.NewExpressions
	default:
		return deviceAnswer{Name: question.Name, Error: "envType: must be NewExpressions or StoredExpressions"}
	}
	compiled := compile(question.Expression, question.Features, cel.Options{EnvType: &envType, DerivedAttribute: question.Derived})
	reply := deviceAnswer{Name: question.Name, MaxCost: compiled.MaxCost}
	if compiled.Error != nil {
		reply.MaxCost = math.MaxUint64
		// Error() of this type says "compilation failed: …" or names the output type.
		reply.CompileError = compiled.Error.Detail
		return reply
	}
	reply.OutputType = compiled.OutputType.String()
	evaluate(&question, &compiled, &reply)
	return reply
}

// compilers by features; they are costly to build and upstream keeps only the last one.
var compilers = map[celFeatures]func(string, cel.Options) cel.CompilationResult{}

func compile(expression string, features *celFeatures, options cel.Options) cel.CompilationResult {
	key := celFeatures{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	if features != nil {
		key = *features
	}
	compiler, found := compilers[key]
	if !found {
		compiler = cel.GetCompiler(cel.Features(key)).CompileCELExpression
		compilers[key] = compiler
	}
	return compiler(expression, options)
}

func evaluate(question *deviceQuestion, compiled *cel.CompilationResult, reply *deviceAnswer) {
	device := cel.Device{
		Driver:                   question.Driver,
		AllowMultipleAllocations: question.AllowMultipleAllocations,
		Attributes:               question.Attributes,
		Capacity:                 question.Capacity,
	}
	var err error
	if question.Derived {
		attribute, details, evalErr := compiled.EvaluateDerivedAttribute(context.Background(), device)
		reply.Attribute, reply.Cost, err = attribute, details.ActualCost(), evalErr
	} else {
		match, details, evalErr := compiled.DeviceMatches(context.Background(), device)
		reply.Match, reply.Cost, err = match, details.ActualCost(), evalErr
	}
	if err != nil {
		reply.MatchError = strings.TrimSpace(err.Error())
	}
}
