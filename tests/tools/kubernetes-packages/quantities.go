package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityAnswer struct {
	// Rounded up to units and to thousandths; both are limited to 64 bits.
	Value int64 `json:"value"`
	Milli int64 `json:"milli"`
	// As an API server stores it.
	Canonical string `json:"canonical"`
}

func answerQuantity(line []byte) (any, error) {
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return nil, err
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, err
	}
	return quantityAnswer{quantity.Value(), quantity.MilliValue(), quantity.String()}, nil
}
