package main

import (
	"fmt"
	"strings"
	"unicode"

	gocel "github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/cel/library"
)

// plainQuestion is a line of input in the plain language: no device, mixed lists allowed.
type plainQuestion struct {
	Name          string            `json:"name"`
	Expression    string            `json:"expression"`
	Bindings      map[string]any    `json:"bindings"`
	Declarations  map[string]string `json:"declarations"`
	Container     string            `json:"container"`
	DisableMacros bool              `json:"disableMacros"`
	DisableCheck  bool              `json:"disableCheck"`
}

type plainAnswer struct {
	Name         string  `json:"name"`
	CompileError string  `json:"compileError"`
	Value        any     `json:"value"`
	Error        string  `json:"error"`
	Cost         *uint64 `json:"cost,omitempty"`
}

// libraries are those of Kubernetes' base environment in the versions of 1.37. The base environment itself cannot be
// used: it refuses mixed lists.
func libraries() []gocel.EnvOption {
	return []gocel.EnvOption{
		gocel.DefaultUTCTimeZone(true),
		gocel.CrossTypeNumericComparisons(true),
		gocel.OptionalTypes(),
		ext.Strings(), // the newest, as the conformance cases want it; the device environment has version 2
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
		ext.Bindings(ext.BindingsVersion(0)),
		library.URLs(),
		library.Regex(),
		library.Lists(library.ListsVersion(1)),
		library.Quantity(),
		library.IP(),
		library.CIDR(),
		library.Format(),
		library.SemverLib(library.SemverVersion(1)),
	}
}

func answerPlain(line []byte) any {
	question := plainQuestion{}
	if err := utiljson.Unmarshal(line, &question); err != nil {
		return plainAnswer{Name: nameOf(line), Error: fmt.Sprintf("not an expression: %v", err)}
	}
	reply := plainAnswer{Name: question.Name}
	env, err := plainEnvironment(&question)
	if err != nil {
		reply.Error = err.Error()
		return reply
	}
	ast, issues := env.Parse(question.Expression)
	if issues.Err() == nil && !question.DisableCheck {
		ast, issues = env.Check(ast)
	}
	if issues.Err() != nil {
		reply.CompileError = issues.String()
		return reply
	}
	runPlain(&question, env, ast, &reply)
	return reply
}

func plainEnvironment(question *plainQuestion) (*gocel.Env, error) {
	options := libraries()
	if question.Container != "" {
		options = append(options, gocel.Container(question.Container))
	}
	if question.DisableMacros {
		options = append(options, gocel.ClearMacros())
	}
	for name, text := range question.Declarations {
		declared, rest, err := parseType(text)
		if err != nil || strings.TrimSpace(rest) != "" {
			return nil, fmt.Errorf("declarations: %s has an unknown type %q", name, text)
		}
		options = append(options, gocel.Variable(name, declared))
	}
	return gocel.NewEnv(options...)
}

func runPlain(question *plainQuestion, env *gocel.Env, ast *gocel.Ast, reply *plainAnswer) {
	// Not optimised: constants that fail, such as int("x"), count only where they are reached.
	program, err := env.Program(ast,
		gocel.EvalOptions(gocel.OptTrackCost),
		gocel.CostTracking(&library.CostEstimator{}),
		gocel.CostLimit(1000000))
	if err != nil {
		reply.Error = err.Error()
		return
	}
	bindings := make(map[string]any, len(question.Bindings))
	for name, typed := range question.Bindings {
		if bindings[name], err = decodeTyped(typed); err != nil {
			reply.Error = fmt.Sprintf("bindings: %s: %v", name, err)
			return
		}
	}
	value, details, err := program.Eval(bindings)
	reply.Cost = details.ActualCost()
	if err != nil {
		reply.Error = err.Error()
		return
	}
	reply.Value = encodeTyped(value)
}

var scalarTypes = map[string]*gocel.Type{
	"int": gocel.IntType, "uint": gocel.UintType, "double": gocel.DoubleType, "bool": gocel.BoolType,
	"string": gocel.StringType, "bytes": gocel.BytesType, "null_type": gocel.NullType, "dyn": gocel.DynType,
	"duration": gocel.DurationType, "timestamp": gocel.TimestampType, "type": gocel.TypeType, "any": gocel.AnyType,
}

// parseType reads `int`, `list<int>`, `map<string, list<int>>` and returns what follows it.
func parseType(text string) (*gocel.Type, string, error) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], text[end:]
	if scalar, found := scalarTypes[name]; found {
		return scalar, rest, nil
	}
	var parameters []*gocel.Type
	for separator := "<"; strings.HasPrefix(strings.TrimSpace(rest), separator); separator = "," {
		parameter, after, err := parseType(strings.TrimSpace(rest)[1:])
		if err != nil {
			return nil, rest, err
		}
		parameters, rest = append(parameters, parameter), after
	}
	rest, closed := strings.CutPrefix(strings.TrimSpace(rest), ">")
	switch {
	case closed && name == "list" && len(parameters) == 1:
		return gocel.ListType(parameters[0]), rest, nil
	case closed && name == "map" && len(parameters) == 2:
		return gocel.MapType(parameters[0], parameters[1]), rest, nil
	}
	return nil, rest, fmt.Errorf("unknown type %q", text)
}
