package main

// Each answers one line. An error is an answer, too: {"error": "..."}.
var answers = map[string]func(line []byte) (any, error){
	"claims":      answerClaim,
	"fair claims": answerFairClaim,
}
