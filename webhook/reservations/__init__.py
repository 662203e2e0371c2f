"""Reservations of PodGroups and charges against ElasticQuotas, in ledgers that all replicas share."""
