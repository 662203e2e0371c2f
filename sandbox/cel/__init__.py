"""Common Expression Language: parser, type checker, cost estimates, evaluation, CRD validation rules."""
