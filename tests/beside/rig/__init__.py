"""Random worlds on a real kube-apiserver: kube-scheduler and Muster's engine decide about the same pod."""
