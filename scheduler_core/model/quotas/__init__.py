"""Quota objects, typed: ElasticQuota, ResourceQuota and ReservationLedger."""
