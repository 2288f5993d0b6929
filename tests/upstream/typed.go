package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Typed values carry a CEL value through JSON: ["int",1] ["uint",1] ["double","1.5"] ["bool",true] ["string","x"]
// ["bytes","hex"] ["null"] ["list",[…]] ["map",[[k,v],…]] ["type","int"] ["duration",ns] ["timestamp",ns].
// Values of Kubernetes' own types, which have no such form, become ["opaque","kubernetes.Quantity","text"].

func encodeTyped(value ref.Val) any {
	switch v := value.(type) {
	case types.Int:
		return []any{"int", int64(v)}
	case types.Uint:
		return []any{"uint", uint64(v)}
	case types.Double:
		return []any{"double", formatDouble(float64(v))}
	case types.Bool:
		return []any{"bool", bool(v)}
	case types.String:
		return []any{"string", string(v)}
	case types.Bytes:
		return []any{"bytes", hex.EncodeToString(v)}
	case types.Null:
		return []any{"null"}
	case types.Duration:
		return []any{"duration", v.Duration.Nanoseconds()}
	case types.Timestamp:
		return []any{"timestamp", v.Time.UnixNano()}
	case *types.Type:
		return []any{"type", v.TypeName()}
	case *types.Optional:
		if !v.HasValue() {
			return []any{"optional"}
		}
		return []any{"optional", encodeTyped(v.GetValue())}
	case traits.Mapper:
		return encodeMap(v)
	case traits.Lister:
		return encodeList(v)
	}
	return []any{"opaque", value.Type().TypeName(), fmt.Sprint(value.Value())}
}

func encodeList(list traits.Lister) any {
	elements := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		elements = append(elements, encodeTyped(it.Next()))
	}
	return []any{"list", elements}
}

func encodeMap(mapper traits.Mapper) any {
	entries := []any{}
	for it := mapper.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		entries = append(entries, []any{encodeTyped(key), encodeTyped(mapper.Get(key))})
	}
	return []any{"map", entries}
}

func formatDouble(value float64) string {
	switch {
	case math.IsInf(value, 1):
		return "inf"
	case math.IsInf(value, -1):
		return "-inf"
	case math.IsNaN(value):
		return "nan"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func decodeTyped(typed any) (ref.Val, error) {
	pair, ok := typed.([]any)
	if !ok || len(pair) == 0 {
		return nil, fmt.Errorf("%v is not a typed value", typed)
	}
	kind, _ := pair[0].(string)
	if kind == "null" {
		return types.NullValue, nil
	}
	if len(pair) != 2 {
		return nil, fmt.Errorf("%v is not a typed value", typed)
	}
	switch content := pair[1].(type) {
	case bool:
		return types.Bool(content), nil
	case string:
		return decodeText(kind, content)
	case int64:
		return decodeInteger(kind, content)
	case float64:
		if kind == "uint" { // above the range of int64
			return types.Uint(content), nil
		}
	case []any:
		return decodeAggregate(kind, content)
	}
	return nil, fmt.Errorf("%v is not a typed value", typed)
}

func decodeText(kind, text string) (ref.Val, error) {
	switch kind {
	case "string":
		return types.String(text), nil
	case "bytes":
		content, err := hex.DecodeString(text)
		return types.Bytes(content), err
	case "double":
		content, err := strconv.ParseFloat(text, 64)
		return types.Double(content), err
	case "type":
		if declared, _, err := parseType(text); err == nil {
			return declared, nil
		}
	}
	return nil, fmt.Errorf("unknown kind %q", kind)
}

func decodeInteger(kind string, content int64) (ref.Val, error) {
	switch kind {
	case "int":
		return types.Int(content), nil
	case "uint":
		return types.Uint(content), nil
	case "duration":
		return types.Duration{Duration: time.Duration(content)}, nil
	case "timestamp":
		return types.Timestamp{Time: time.Unix(0, content).UTC()}, nil
	}
	return nil, fmt.Errorf("unknown kind %q", kind)
}

func decodeAggregate(kind string, content []any) (ref.Val, error) {
	switch kind {
	case "list":
		elements := make([]ref.Val, len(content))
		for i := range content {
			element, err := decodeTyped(content[i])
			if err != nil {
				return nil, err
			}
			elements[i] = element
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements), nil
	case "map":
		entries := make(map[ref.Val]ref.Val, len(content))
		for _, entry := range content {
			pair, ok := entry.([]any)
			if !ok || len(pair) != 2 {
				return nil, fmt.Errorf("%v is not an entry of a map", entry)
			}
			key, err := decodeTyped(pair[0])
			if err != nil {
				return nil, err
			}
			if entries[key], err = decodeTyped(pair[1]); err != nil {
				return nil, err
			}
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, entries), nil
	}
	return nil, fmt.Errorf("unknown kind %q", kind)
}
