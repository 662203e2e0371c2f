package main

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The schema of a custom resource with one rule, and objects that fit the schema.
type ruleQuestion struct {
	Schema  apiextensionsv1.JSONSchemaProps `json:"schema"`
	Objects []json.RawMessage               `json:"objects"`
}

// What an API server makes of the rule: its estimated cost, and for each object "holds", "fails" or "error: ...".
type ruleAnswer struct {
	Cost     uint64   `json:"cost"`
	Verdicts []string `json:"verdicts"`
}

var environmentSet = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())

func answerRule(line []byte) (any, error) {
	question := ruleQuestion{}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&question.Schema, internal, nil)
	if err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	compiled, err := cel.Compile(structural, model.SchemaDeclType(structural, false), celconfig.PerCallLimit,
		environmentSet, cel.NewExpressionsEnvLoader())
	if err != nil {
		return nil, err
	}
	answer := ruleAnswer{Verdicts: []string{}}
	for _, result := range compiled {
		if result.Error != nil {
			return nil, result.Error
		}
		answer.Cost = result.MaxCost
	}
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	for _, raw := range question.Objects {
		var object any
		if err := utiljson.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		errs, _ := validator.Validate(context.Background(), field.NewPath("spec"), structural, object, nil,
			celconfig.RuntimeCELCostBudget)
		answer.Verdicts = append(answer.Verdicts, verdict(errs))
	}
	return answer, nil
}

func verdict(errs field.ErrorList) string {
	if len(errs) == 0 {
		return "holds"
	}
	for _, sign := range []string{" evaluating rule: ", "call arguments did not match", "cost budget"} {
		if strings.Contains(errs[0].Detail, sign) {
			return "error: " + errs[0].Detail
		}
	}
	return "fails"
}
