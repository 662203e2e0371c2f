"""Text forms that the kubectl plugins and the sandbox's API server share: ages and JSONPath."""
