{{/* Muster is installed once per cluster, so its objects have fixed names. */}}
{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Arguments: the component's name. */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: {{ . }}
{{- end -}}

{{- define "muster.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Namespaces whose objects the webhook never reviews, as JSON. */}}
{{- define "muster.exemptNamespaces" -}}
{{- $always := list "kube-system" "kube-node-lease" "kube-public" "muster-system" .Release.Namespace -}}
{{ concat $always .Values.webhook.exemptNamespaces | uniq | sortAlpha | toJson }}
{{- end -}}

{{/* Fields of every pod of Muster. Arguments: root, component, values. */}}
{{- define "muster.podSpec" -}}
serviceAccountName: muster-{{ .component }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
schedulerName: default-scheduler
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: {{ eq $key "kubernetes.io/hostname" | ternary $.root.Values.topologySpread.whenUnsatisfiable "ScheduleAnyway" }}
    labelSelector:
      matchLabels: {{ include "muster.selector" $.component | nindent 8 }}
  {{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Fields of every container of Muster. Arguments: root, values. */}}
{{- define "muster.container" -}}
image: {{ include "muster.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
resources: {{ toYaml .values.resources | nindent 2 }}
{{- end -}}

{{/* A ClusterRole from a file of rules. Arguments: root, name, file. */}}
{{- define "muster.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels: {{ include "muster.labels" .root | nindent 4 }}
rules: {{ (.root.Files.Get .file | fromYaml).rules | toYaml | nindent 2 }}
{{- end -}}

{{/* Grant a ClusterRole to a service account in all namespaces. Arguments: root, name, account. */}}
{{- define "muster.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels: {{ include "muster.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{/* Rights in the release's own namespace. Arguments: root, account, file. */}}
{{- define "muster.ownNamespaceRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "muster.labels" .root | nindent 4 }}
rules: {{ (.root.Files.Get .file | fromYaml).rules | toYaml | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "muster.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .account }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{/* A disruption budget. Arguments: root, component. One replica may be evicted at a time; an unhealthy one may always be evicted. */}}
{{- define "muster.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: muster-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "muster.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "muster.selector" .component | nindent 6 }}
{{- end -}}
